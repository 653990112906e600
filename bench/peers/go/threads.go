// The workloads of two OS threads, in Go with two processors. With --locked each goroutine is locked to a thread.
package main

import (
	"runtime"
	"time"
)

var locked = false

// begin starts f in a goroutine. With --locked, this goroutine and the other one keep their threads.
func begin(f func()) {
	if locked {
		runtime.LockOSThread()
	}
	go func() {
		if locked {
			runtime.LockOSThread()
		}
		f()
	}()
}

func threadMessages(size int) func(int) {
	return func(n int) {
		ch, done := make(chan int, size), make(chan bool)
		begin(func() {
			for i := 0; i < n; i++ {
				<-ch
			}
			done <- true
		})
		for i := 0; i < n; i++ {
			ch <- i
		}
		<-done
	}
}

func threadPingPong(n int) {
	ping, pong := make(chan int), make(chan int)
	begin(func() {
		for i := 0; i < n; i++ {
			pong <- <-ping
		}
	})
	for i := 0; i < n; i++ {
		ping <- i
		<-pong
	}
}

// threadSelect takes n messages from two channels by a select over these and one on which nothing comes.
func threadSelect(n int) {
	a, b, quiet := make(chan int), make(chan int), make(chan int)
	begin(func() {
		for i := 0; i < n; i++ {
			if i%2 == 0 {
				a <- i
			} else {
				b <- i
			}
		}
	})
	for i := 0; i < n; i++ {
		select {
		case <-a:
		case <-b:
		case <-quiet:
		}
	}
}

func compute(count int) int {
	sum := 0
	for i := 1; i <= count; i++ {
		sum += i % 7
	}
	return sum
}

// jobs runs n jobs with k goroutines, and returns how long that took.
func jobs(n, k, count int) time.Duration {
	from, to := make(chan int), make(chan int)
	for i := 0; i < k; i++ {
		begin(func() {
			for c := range from {
				to <- compute(c)
			}
		})
	}
	start := time.Now()
	go func() {
		for i := 0; i < n; i++ {
			from <- count
		}
		close(from)
	}()
	for i := 0; i < n; i++ {
		<-to
	}
	return time.Since(start)
}

// speedup is how much faster n jobs of 1 ms are with two goroutines than with one.
func speedup(n int) float64 {
	count := 10000
	var took time.Duration
	for took < 20*time.Millisecond {
		count *= 2
		start := time.Now()
		compute(count)
		took = time.Since(start)
	}
	count = int(float64(count) * float64(time.Millisecond) / float64(took))
	return float64(jobs(n, 1, count)) / float64(jobs(n, 2, count))
}

// onTwo runs a workload with two processors.
func onTwo(f func() float64) func() float64 {
	return func() float64 {
		runtime.GOMAXPROCS(2)
		return f()
	}
}

// wall is ns by the clock for each operation of f(n); n grows from start until a run takes long enough.
func wall(f func(int), start int) func() float64 {
	return onTwo(func() float64 {
		n, enough := start, 300*time.Millisecond
		if quick {
			n, enough = (start+9)/10, 60*time.Millisecond
		}
		for {
			runtime.GC()
			from := time.Now()
			f(n)
			took := time.Since(from)
			if took >= enough {
				return float64(took) / float64(n)
			}
			n *= 4
		}
	})
}

func threadWorkloads() map[string]func() float64 {
	return map[string]func() float64{
		"threads0":         wall(threadMessages(0), 20000),
		"threads100":       wall(threadMessages(100), 20000),
		"threads_pingpong": wall(threadPingPong, 20000),
		"threads_alts":     wall(threadSelect, 20000),
		"threads_speedup":  onTwo(func() float64 { return speedup(400) }),
	}
}
