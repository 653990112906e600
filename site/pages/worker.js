// worker.js: the worker in which a page runs one program. The page ends it to stop the program.
importScripts("runnel.js", "program.js");

let running = null;
onmessage = ({ data }) => {
  if (data.program) running = globalThis.runProgram(Runnel, data.module, data.program, (what) => postMessage(what));
  else if (running) running.hear(data.command);
};
