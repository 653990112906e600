;; A program as it is written for async.fnl; only its require lines name this library instead.
;; It prints lines that spec/fennel_spec.lua compares.

(local {: chan : timeout : <! : >! : <!! : close! : alts! : put! : to-chan! : into : mult : tap : untap
        : pub : sub : dropping-buffer : pipeline-async : split : reduce : reduced : merge &as async}
  (require :runnel.core_async))

(import-macros {: go : go-loop}
  (doto :runnel.core_async require))

(local unpack (or _G.unpack table.unpack))

(fn show [name ...]
  (print (.. name ": " (table.concat [...] " "))))

(fn drain [ch]
  (<!! (into [] ch)))

;; go and its result channel
(show :go (<!! (go (+ 1 (<! (go 41))))))
(show :nothing (tostring (<!! (go))))

;; go-loop, with destructuring and a value that uses an earlier name
(let [c (chan 3)]
  (go-loop [i 1 {: square} {:square (* i i)}]
    (if (<= i 3)
        (do (>! c square)
            (recur (+ i 1) {:square (* (+ i 1) (+ i 1))}))
        (close! c)))
  (show :go-loop (unpack (drain c))))

;; alts!: takes, puts, timeouts, priority and default
(let [c (chan) d (chan 1)]
  (show :default (unpack (<!! (go (alts! [c] {:default :none})))))
  (<!! (go (match (alts! [c (timeout 5)])
             [v c] (show :alts v)
             _ (show :alts :timeout))))
  (<!! (go (match (alts! [c [d :x]] {:priority true})
             [true d] (show :alts :put (<! d))))))

;; mult: every tap gets every value
(let [source (chan)
      m (mult source)
      [left right gone] [(chan 5) (chan 5) (chan 5)]]
  (each [_ ch (ipairs [left right gone])] (tap m ch))
  (untap m gone)
  (go-loop [i 1]
    (if (< i 4)
        (do (>! source i) (recur (+ i 1)))
        (close! source)))
  (show :mult (unpack (drain left)))
  (show :mult (unpack (drain right))))

;; pub: by topic, each topic with a buffer of its own
(let [source (chan)
      p (pub source #(. $ :kind) #(dropping-buffer 10))
      fruit (chan 10)
      trees (chan 10)]
  (sub p :fruit fruit)
  (sub p :tree trees)
  (go (each [_ v (ipairs [{:kind :fruit :name :fig} {:kind :tree :name :oak} {:kind :fruit :name :kiwi}
                          {:kind :stone :name :flint}])]
        (>! source v))
      (close! source))
  (show :fruit (unpack (icollect [_ v (ipairs (drain fruit))] v.name)))
  (show :tree (unpack (icollect [_ v (ipairs (drain trees))] v.name))))

;; pipeline-async: results in the order of the values, whatever time they take
(let [out (chan 10)]
  (pipeline-async 3 out
                  (fn [v result]
                    (go (<! (timeout (- 20 (* 5 v))))
                        (>! result v)
                        (>! result (* 10 v))
                        (close! result)))
                  (to-chan! [1 2 3]))
  (show :pipeline (unpack (drain out))))

;; a table of two, an early end, and whatever comes
(let [[even odd] (split #(= 0 (% $ 2)) (to-chan! [1 2 3 4]) 5 5)]
  (show :split (table.concat (drain even)) (table.concat (drain odd))))
(show :reduce (<!! (reduce #(if (= $2 3) (reduced $1) (+ $1 $2)) 0 (to-chan! [1 2 3 4]))))
(show :merge (unpack (doto (drain (merge [(to-chan! [1 3]) (to-chan! [2 4])])) table.sort)))

;; callbacks, and a name of the module that no local has
(let [c (chan)]
  (async.take! c #(show :callback $))
  (put! c :called)
  (<!! (timeout 5)))
