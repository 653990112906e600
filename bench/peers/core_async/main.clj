;; The workloads in core.async, on the JVM.
;;
;;     java -cp CLASSPATH clojure.main bench/peers/core_async/main.clj [--quick] [NAME...]
;;
;; with the jars of clojure, core.async and what it requires in CLASSPATH (bench/peers.lua has the list for Debian).
;; Without names it reads them from standard input, so that one warm JVM can run many workloads.
;;
;; Prints `name value` for each: ns per operation, of elapsed time or of CPU time, whichever is less, because go blocks
;; run in a pool of threads; or bytes. Each workload runs for some seconds before it is measured for the first time.

(ns main
  (:require [clojure.core.async :as a
             :refer [<! <!! >! alts! chan close! go go-loop mult pipeline-async tap timeout]]))

(set! *warn-on-reflection* true)

;; ---- workloads, each a function of the number of operations ----

(defn make-chan [size] (if (zero? size) (chan) (chan size)))

(defn messages [size]
  (fn [n]
    (let [ch (make-chan size)]
      (go (dotimes [i n] (>! ch i)))
      (<!! (go (dotimes [_ n] (<! ch)))))))

(defn ping-pong [n]
  (let [ping (chan) pong (chan)]
    (go (dotimes [_ n] (>! pong (<! ping))))
    (<!! (go (dotimes [i n]
               (>! ping i)
               (<! pong))))))

(defn ring
  "A token goes round a ring of 1000; n is the number of rounds."
  [n]
  (let [start (chan)
        end (reduce (fn [from _]
                      (let [to (chan)]
                        (go (dotimes [_ n] (>! to (<! from))))
                        to))
                    start (range 1 1000))]
    (<!! (go (dotimes [i n]
               (>! start i)
               (<! end))))))

(defn select-over
  "n messages over width channels. One go block puts on all of them in turn, or each has its own."
  [width own-putters]
  (fn [n]
    (let [chs (vec (repeatedly width chan))
          put (fn [from by]
                (go-loop [i (long from)]
                  (when (< i n)
                    (>! (nth chs (rem i width)) i)
                    (recur (+ i by)))))]
      (if own-putters
        (dotimes [i width] (put i width))
        (put 0 1))
      (<!! (go (dotimes [_ n] (alts! chs)))))))

(defn spawn [n]
  (<!! (go (dotimes [_ n] (<! (go true))))))

(defn node
  "Puts the sum of the numbers of a tree's leaves on the parent."
  [parent number size]
  (go
    (if (= size 1)
      (>! parent number)
      (let [children (chan) part (quot size 10)]
        (dotimes [i 10] (node children (+ number (* i part)) part))
        (loop [i 0 sum 0]
          (if (< i 10)
            (recur (inc i) (+ sum (<! children)))
            (>! parent sum)))))))

(defn skynet
  "n trees of 100 thousand leaves, one after the other."
  [n]
  (let [root (chan)
        sum (<!! (go-loop [i 0 sum 0]
                   (if (< i n)
                     (do (node root (* i 100000) 100000)
                         (recur (inc i) (+ sum (<! root))))
                     sum)))]
    (assert (= sum (quot (* n 100000 (dec (* n 100000))) 2)))))

(defn sift [from prime]
  (let [to (chan)]
    (go-loop []
      (let [i (<! from)]
        (when-not (zero? (rem i prime)) (>! to i))
        (recur)))
    to))

(defn sieve [n]
  (dotimes [_ n]
    (let [numbers (chan)]
      (go-loop [i 2]
        (>! numbers i)
        (recur (inc i)))
      (<!! (go-loop [k 0 ch numbers]
             (when (< k 1000)
               (recur (inc k) (sift ch (<! ch)))))))))

(defn pipeline [n]
  (let [from (chan) to (chan)]
    (go (dotimes [i n] (>! from i))
        (close! from))
    (pipeline-async 8 to
                    (fn [value result]
                      (go (>! result (inc value))
                          (close! result)))
                    from)
    (assert (= (<!! (a/reduce + 0 to)) (quot (* n (inc n)) 2)))))

(defn mult-to-4 [n]
  (let [from (chan)
        m (mult from)
        taps (vec (repeatedly 4 #(tap m (chan))))
        done (mapv (fn [ch] (go (dotimes [_ n] (<! ch)))) taps)]
    (go (dotimes [i n] (>! from i)))
    (run! <!! done)))

(defn timeouts
  "Waits for n that end within a second, once all have been made. Those within 10 ms share one."
  [n]
  (let [list (vec (repeatedly n #(timeout (+ 1000 (rand-int 1000)))))]
    (<!! (go-loop [i 0]
           (when (< i n)
             (<! (nth list i))
             (recur (inc i)))))))

(defn parked
  "Go blocks parked in a take, a thousand for each channel."
  [^objects keep]
  (dotimes [i (alength keep)]
    (when (zero? (rem i 1000)) (aset keep (quot i 1000) (chan)))
    (let [ch (aget keep (quot i 1000))]
      (go (<! ch))))
  (<!! (go)) ; the last to be run
  (Thread/sleep 100))

(defn channels [^objects keep]
  (dotimes [i (alength keep)] (aset keep i (chan))))

;; ---- measuring ----

(def quick (some #{"--quick"} *command-line-args*))

(defn wall [] (System/nanoTime))
(defn cpu []
  (.getProcessCpuTime ^com.sun.management.OperatingSystemMXBean
                      (java.lang.management.ManagementFactory/getOperatingSystemMXBean)))

(defn nanoseconds [f n]
  (System/gc)
  (let [wall-from (wall) cpu-from (cpu)]
    (f n)
    (min (- (wall) wall-from) (- (cpu) cpu-from))))

(def warm (atom #{}))
(defn warm-up
  "Repeats (f n), at least twice, until some seconds have passed."
  [f n]
  (when-not (@warm f)
    (swap! warm conj f)
    (let [end (+ (wall) (* (if quick 1 4) 1000000000))]
      (f n)
      (loop []
        (f n)
        (when (< (wall) end) (recur))))))

(defn ns-each
  "ns for each operation of (f n), which does n * per of them; n grows until a run takes long enough."
  [f start & {:keys [per fixed] :or {per 1}}]
  (fn []
    (let [start (if quick (max 1 (quot start 10)) start)
          enough (if quick 1e8 4e8)]
      (warm-up f start)
      (loop [n start]
        (let [took (nanoseconds f n)]
          (if (or fixed (>= took enough))
            (/ (double took) (* n per))
            (recur (* n (min 10 (int (Math/ceil (/ (* 1.5 enough) (max 1 took)))))))))))))

(defn in-use []
  (dotimes [_ 3] (System/gc))
  (let [runtime (Runtime/getRuntime)]
    (- (.totalMemory runtime) (.freeMemory runtime))))

(defn bytes-each
  "Bytes for each of n objects that f makes and keeps alive in an array of n."
  [f n]
  (fn []
    (f (object-array n)) ; what is allocated once
    (let [keep (object-array n)
          before (in-use)]
      (f keep)
      (let [after (in-use)]
        (assert (aget ^objects keep 0))
        (/ (double (- after before)) n)))))

(def workloads
  {"chan0" (ns-each (messages 0) 100000)
   "chan1" (ns-each (messages 1) 100000)
   "chan100" (ns-each (messages 100) 100000)
   "pingpong" (ns-each ping-pong 100000)
   "ring" (ns-each ring 100 :per 1000)
   "select4" (ns-each (select-over 4 false) 50000)
   "fanin4" (ns-each (select-over 4 true) 50000)
   "select64" (ns-each (select-over 64 false) 5000)
   "spawn" (ns-each spawn 100000)
   "skynet" (ns-each skynet 10 :per 111111 :fixed true)
   "sieve" (ns-each sieve 1 :fixed true)
   "pipeline_async" (ns-each pipeline 100000 :fixed true)
   "mult" (ns-each mult-to-4 20000)
   "timeouts" (ns-each timeouts 1000000 :fixed true)
   "parked" (bytes-each parked 100000)
   "channel" (bytes-each channels 100000)})

(defn measure [name]
  (when-let [workload (workloads name)]
    (println (format "%s %.1f" name (workload))))
  (flush))

(if-let [names (seq (remove #{"--quick"} *command-line-args*))]
  (run! measure names)
  (doseq [name (line-seq (java.io.BufferedReader. *in*))]
    (measure name)
    (println "done") ; whether it has that workload or not
    (flush)))
(shutdown-agents)
(System/exit 0)
