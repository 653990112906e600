// editor.js: an editor with the colours of Lua.
import CodeMirror from "codemirror/lib/codemirror.js";
import "codemirror/mode/lua/lua.js";

// An editor in an element: { get(), set(text), onChange(f) }. run() is called for Ctrl-Enter.
export function makeEditor(element, run) {
  const editor = CodeMirror(element, {
    mode: "lua", lineNumbers: true, indentUnit: 2, tabSize: 2, viewportMargin: Infinity, inputStyle: "contenteditable",
    extraKeys: {
      "Ctrl-Enter": run, "Cmd-Enter": run, "Shift-Tab": "indentLess",
      Tab: (cm) => (cm.somethingSelected() ? cm.execCommand("indentMore") : cm.execCommand("insertSoftTab")),
      Esc: (cm) => cm.getInputField().blur(), // so that Tab can leave the editor
    },
  });
  editor.getInputField().setAttribute("aria-label", "the program");
  return {
    get: () => editor.getValue(),
    set(text) { editor.setValue(text); },
    onChange(f) { editor.on("change", f); },
    refresh() { editor.refresh(); },
  };
}
