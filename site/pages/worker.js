// worker.js: the worker in which a page runs one program. The page ends it to stop the program. Before it in the file are
// runnel.js and program.js.

// The text of a file that the page has not loaded: the program waits for it.
function loadText(file) {
  const request = new XMLHttpRequest();
  request.open("GET", new URL(file, location.href), false);
  request.send();
  if (request.status !== 200) throw new Error(`${file} cannot be loaded: the server answers ${request.status}`);
  return request.responseText;
}

let running = null;
onmessage = ({ data }) => {
  const { program, module, others, command } = data;
  if (program) {
    const text = (file) => (file === "modules.txt" && others) || loadText(file);
    running = globalThis.runProgram(Runnel, module, text, program, (what) => postMessage(what));
  } else if (running) running.hear(command);
};
