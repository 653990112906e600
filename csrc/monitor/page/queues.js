// queues.js: the queues of the program's NATS server, as `runnel queues` shows them.
const { html, useEffect } = window.htmPreact;

export function Queues({ model, command, lines }) {
  const second = Math.floor((model.summary.t || 0) / 1000);
  useEffect(() => { command("queues", {}, true); }, [second]);
  if (!lines) return html`<p class="calm">${model.looking}</p>`;
  return lines[0] ? html`<pre class="queues">${lines[1]}</pre>` : html`<p class="calm">${lines[1]}</p>`;
}
