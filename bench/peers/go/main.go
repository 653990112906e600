// The workloads in Go, on one processor; those of two threads, in threads.go, on two.
//
//	go build -o build/peers/go bench/peers/go/*.go && build/peers/go [--quick] [--locked] NAME...
//
// Prints `name value` for each: ns of CPU time per operation, or bytes.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"syscall"
	"time"
)

func messages(buffer int) func(int) {
	return func(n int) {
		ch := make(chan int, buffer)
		go func() {
			for i := 0; i < n; i++ {
				ch <- i
			}
		}()
		for i := 0; i < n; i++ {
			<-ch
		}
	}
}

func pingPong(n int) {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for i := 0; i < n; i++ {
			pong <- <-ping
		}
	}()
	for i := 0; i < n; i++ {
		ping <- i
		<-pong
	}
}

// A token goes round a ring of 1000; n is the number of rounds.
func ring(n int) {
	first := make(chan int)
	left := first
	for i := 1; i < 1000; i++ {
		from, to := left, make(chan int)
		go func() {
			for i := 0; i < n; i++ {
				to <- <-from
			}
		}()
		left = to
	}
	for i := 0; i < n; i++ {
		first <- i
		<-left
	}
}

// putters puts n messages on all channels in turn, or on each from a goroutine of its own.
func putters(chs []chan int, n int, own bool) {
	put := func(first, step int) {
		for i := first; i < n; i += step {
			chs[i%len(chs)] <- i
		}
	}
	if own {
		for i := range chs {
			go put(i, len(chs))
		}
	} else {
		go put(0, 1)
	}
}

func makeChans(n int) []chan int {
	chs := make([]chan int, n)
	for i := range chs {
		chs[i] = make(chan int)
	}
	return chs
}

func select4(own bool) func(int) {
	return func(n int) {
		chs := makeChans(4)
		putters(chs, n, own)
		a, b, c, d := chs[0], chs[1], chs[2], chs[3]
		for i := 0; i < n; i++ {
			select {
			case <-a:
			case <-b:
			case <-c:
			case <-d:
			}
		}
	}
}

func spawn(n int) {
	for i := 0; i < n; i++ {
		ch := make(chan bool)
		go func() { ch <- true }()
		<-ch
	}
}

// node sums the numbers of a tree's leaves.
func node(parent chan<- int, number, size int) {
	if size == 1 {
		parent <- number
		return
	}
	children, part, sum := make(chan int), size/10, 0
	for i := 0; i < 10; i++ {
		go node(children, number+i*part, part)
	}
	for i := 0; i < 10; i++ {
		sum += <-children
	}
	parent <- sum
}

// skynet runs n trees of 100 thousand leaves, one after the other.
func skynet(n int) {
	root, sum := make(chan int), 0
	for i := 0; i < n; i++ {
		go node(root, i*100000, 100000)
		sum += <-root
	}
	if sum != n*100000*(n*100000-1)/2 {
		panic(sum)
	}
}

func sift(from <-chan int, prime int) <-chan int {
	to := make(chan int)
	go func() {
		for i := range from {
			if i%prime != 0 {
				to <- i
			}
		}
	}()
	return to
}

func sieve(n int) {
	for ; n > 0; n-- {
		numbers := make(chan int)
		go func() {
			for i := 2; ; i++ {
				numbers <- i
			}
		}()
		var ch <-chan int = numbers
		for i := 0; i < 1000; i++ {
			ch = sift(ch, <-ch)
		}
	}
}

// pipeline runs n jobs, 8 at a time, and keeps their results in order.
func pipeline(n int) {
	from, to := make(chan int), make(chan int)
	go func() {
		for i := 1; i <= n; i++ {
			from <- i
		}
		close(from)
	}()
	jobs := make(chan chan int, 8-1) // the consumer waits for the eighth
	go func() {
		for value := range from {
			result := make(chan int, 1)
			jobs <- result
			value := value
			go func() { result <- value + 1 }()
		}
		close(jobs)
	}()
	go func() {
		for result := range jobs {
			to <- <-result
		}
		close(to)
	}()
	sum := 0
	for value := range to {
		sum += value
	}
	if sum != n*(n+3)/2 {
		panic(sum)
	}
}

// fanout copies n messages to 4 goroutines.
func fanout(n int) {
	from, done := make(chan int), make(chan bool)
	taps := makeChans(4)
	go func() {
		for value := range from {
			for _, tap := range taps {
				tap <- value
			}
		}
	}()
	for _, tap := range taps {
		tap := tap
		go func() {
			for i := 0; i < n; i++ {
				<-tap
			}
			done <- true
		}()
	}
	for i := 0; i < n; i++ {
		from <- i
	}
	close(from)
	for range taps {
		<-done
	}
}

// timeouts waits for n timeouts, all made before the first one fires; then they fire within a second.
func timeouts(n int) {
	list := make([]<-chan time.Time, n)
	for i := range list {
		list[i] = time.After(time.Duration(1000+rand.Intn(1000)) * time.Millisecond)
	}
	for _, timeout := range list {
		<-timeout
	}
}

// timers is the same with n different deadlines.
func timers(n int) {
	list := make([]<-chan time.Time, n)
	for i, j := range rand.Perm(n) {
		list[i] = time.After(time.Second + time.Duration(j)*time.Microsecond)
	}
	for _, timer := range list {
		<-timer
	}
}

// parked parks goroutines, a thousand for each channel.
func parked(keep []chan int) {
	for i := range keep {
		if i%1000 == 0 {
			keep[i/1000] = make(chan int)
		}
		ch := keep[i/1000]
		go func() { <-ch }()
	}
	time.Sleep(100 * time.Millisecond) // until all are parked
}

func channels(keep []chan int) {
	for i := range keep {
		keep[i] = make(chan int)
	}
}

// ---- measuring ----

var quick = false

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// ns for each operation of f(n), which does n * per of them; n grows from start until a run takes long enough.
func ns(f func(int), start, per int, fixed bool) func() float64 {
	return func() float64 {
		n, enough := start, 200*time.Millisecond
		if quick {
			n, enough = (start+9)/10, 40*time.Millisecond
		}
		for {
			runtime.GC()
			from := cpu()
			f(n)
			took := cpu() - from
			if fixed || took >= enough {
				return float64(took) / float64(n*per)
			}
			factor := 10
			if took > 0 && int(enough*3/2/took)+1 < factor {
				factor = int(enough*3/2/took) + 1
			}
			n *= factor
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

// bytes for each of n objects that f makes and keeps alive in `keep`, which has room for n.
func bytes(f func(keep []chan int), n int) func() float64 {
	return func() float64 {
		keep := make([]chan int, n)
		before := inUse()
		f(keep)
		after := inUse()
		runtime.KeepAlive(keep)
		return float64(after-before) / float64(n)
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	workloads := map[string]func() float64{
		"chan0":    ns(messages(0), 1000000, 1, false),
		"chan1":    ns(messages(1), 1000000, 1, false),
		"chan100":  ns(messages(100), 1000000, 1, false),
		"pingpong": ns(pingPong, 1000000, 1, false),
		"ring":     ns(ring, 1000, 1000, false),
		"select4":  ns(select4(false), 100000, 1, false),
		"fanin4":   ns(select4(true), 100000, 1, false),
		"select64": ns(select64, 20000, 1, false),
		"spawn":    ns(spawn, 100000, 1, false),
		"skynet":   ns(skynet, 10, 111111, true),
		"sieve":    ns(sieve, 1, 1, true),
		"pipeline": ns(pipeline, 100000, 1, true),
		"fanout4":  ns(fanout, 20000, 1, false),
		"timeouts": ns(timeouts, 1000000, 1, true),
		"timers":   ns(timers, 1000000, 1, true),
		"parked":   bytes(parked, 100000),
		"channel":  bytes(channels, 100000),
	}
	for name, workload := range threadWorkloads() {
		workloads[name] = workload
	}
	for _, name := range os.Args[1:] {
		if name == "--quick" {
			quick = true
		} else if name == "--locked" {
			locked = true
		} else if workload := workloads[name]; workload != nil {
			fmt.Printf("%s %.1f\n", name, workload())
		}
	}
}
