// editor.js: an editor with the colours of Lua: a text field, and below it the same text in colours (editorHtml of
// lua_html.mjs writes both, so the page shows the program before this script is loaded).
import { linesHtml } from "../lua_html.mjs";

const STEP = "  ", OPENS = /(\b(then|do|else|repeat)|\bfunction\b.*\)|[{(])\s*(--.*)?$/;

// The start of the line that has this place.
const lineStart = (text, at) => text.lastIndexOf("\n", at - 1) + 1;

// Makes the editor in an element: { get(), set(text), onChange(f) }. run() is called for Ctrl-Enter.
export function makeEditor(element, run) {
  const field = element.querySelector("textarea"), colours = element.querySelector("code"), listeners = [];
  const paint = () => { colours.innerHTML = linesHtml(field.value); };

  // Puts a text in place of what is selected, so that it can be undone.
  const type = (text) => { if (!document.execCommand("insertText", false, text)) field.setRangeText(text, field.selectionStart, field.selectionEnd, "end"); };

  // Adds a step to the lines that are selected, or takes one away.
  function indent(away) {
    const { value, selectionStart, selectionEnd } = field, from = lineStart(value, selectionStart);
    const old = value.slice(from, selectionEnd);
    const text = away ? old.replace(/^ {1,2}/gm, "") : old.replace(/^/gm, STEP);
    if (text === old) return;
    field.setSelectionRange(from, selectionEnd);
    type(text);
    if (selectionStart !== selectionEnd) field.setSelectionRange(from, from + text.length);
  }

  const keys = {
    Tab({ shiftKey }) {
      if (shiftKey || field.selectionStart !== field.selectionEnd) indent(shiftKey);
      else type(STEP);
    },
    Enter({ ctrlKey, metaKey }) {
      if (ctrlKey || metaKey) return run();
      const line = field.value.slice(lineStart(field.value, field.selectionStart), field.selectionStart);
      type("\n" + /^ */.exec(line)[0] + (OPENS.test(line) ? STEP : ""));
    },
    Escape() { field.blur(); }, // so that Tab can leave the editor
  };
  field.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.isComposing) return;
    event.preventDefault();
    keys[event.key](event);
  });
  field.addEventListener("input", () => {
    paint();
    for (const f of listeners) f();
  });
  return {
    get: () => field.value,
    set(text) {
      field.value = text;
      paint();
      element.scrollTop = 0;
    },
    onChange(f) { listeners.push(f); },
  };
}
