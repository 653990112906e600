// output.js: what a program prints, in a <pre>. Errors have their own colour; very long output is cut by program.js.

export class Output {
  constructor(element) {
    this.element = element;
    this.frame = null;
    this.clear();
  }

  clear() {
    this.element.replaceChildren();
    this.out = "";
    this.err = "";
    this.pending = []; // [kind, text], for the next frame
  }

  add(kind, text) {
    this[kind] += text;
    const last = this.pending.at(-1);
    if (last && last[0] === kind) last[1] += text;
    else this.pending.push([kind, text]);
    if (this.frame) return;
    if (!this.element.firstChild) return this.flush(); // the first output is seen at once
    this.frame = setTimeout(() => this.flush(), 30);
  }

  // Shows what has come; once in a while, since each change costs a layout.
  flush() {
    clearTimeout(this.frame);
    this.frame = null;
    const at = this.element, below = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
    for (const [kind, text] of this.pending) {
      let last = at.lastElementChild;
      if (!last || last.className !== kind) {
        last = document.createElement("span");
        last.className = kind;
        at.append(last);
      }
      last.append(text);
    }
    this.pending = [];
    if (below) at.scrollTop = at.scrollHeight;
  }

  // What it printed, as the lines that documentation shows.
  get lines() {
    const lines = this.out.replaceAll("\t", " ").split("\n");
    if (lines.at(-1) === "") lines.pop();
    return lines;
  }
}
