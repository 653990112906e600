// worker.js: the worker in which a page runs one program. The page ends it to stop the program. Before it in the file are
// runnel.js and program.js.

// The text of modules.txt, which the page has not loaded yet: the program waits for it.
function loadOthers() {
  const request = new XMLHttpRequest();
  request.open("GET", new URL("modules.txt", location.href), false);
  request.send();
  if (request.status !== 200) throw new Error(`modules.txt cannot be loaded: the server answers ${request.status}`);
  return request.responseText;
}

let running = null;
onmessage = ({ data }) => {
  const { program, module, others, command } = data;
  if (program) {
    running = globalThis.runProgram(Runnel, module, () => others || loadOthers(), program, (what) => postMessage(what));
  } else if (running) running.hear(command);
};
