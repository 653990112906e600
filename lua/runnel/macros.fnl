;; Macros for Fennel: go and go-loop.
;;
;;   (local {: chan : <! : >!} (require :runnel.core_async))
;;   (import-macros {: go : go-loop} (doto :runnel.core_async require))
;;
;; The doto loads the module while the compiler runs, and the module makes the compiler find this file. Without the
;; doto, give the compiler a path: (import-macros {: go : go-loop} :runnel.macros) and
;; fennel --add-macro-path 'lua/?.fnl'.

(fn go [...]
  "Runs the body as a go block. Returns a channel that gets its result, unless that is nil, and closes."
  {:fnl/arglist [& body]}
  `((. (require :runnel.core_async) :go) (fn [] (do ,...))))

(fn go-loop [bindings ...]
  "Runs the body as a go block, with names bound as by let. A call of recur, in tail position, rebinds them and
repeats the body."
  {:fnl/arglist [bindings & body]}
  (assert-compile (sequence? bindings) "go-loop: a sequence of names and values expected" bindings)
  (assert-compile (= 0 (% (length bindings) 2)) "go-loop: a name without a value" bindings)
  (let [names [] starts [] initial []]
    (for [i 1 (length bindings) 2]
      (let [name (. bindings i)
            value (gensym :initial)]
        (assert-compile (not (list? name)) "go-loop: cannot bind several values at once" name)
        (table.insert names name)
        (table.insert starts value)
        ;; A later value may use an earlier name.
        (each [_ form (ipairs [value (. bindings (+ i 1)) name value])]
          (table.insert initial form))))
    (go `(let ,initial
           ((fn ,(sym :recur) ,names (do ,...)) ,(unpack starts))))))

{: go : go-loop}
