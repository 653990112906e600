// Twenty calls of 5 ms, four at a time; the results in order.
package main

import (
	"fmt"
	"sync"
	"time"
)

func limit() {
	var mutex sync.Mutex
	running, most := 0, 0
	fetch := func(n int) int {
		mutex.Lock()
		running++
		if running > most {
			most = running
		}
		mutex.Unlock()
		time.Sleep(5 * time.Millisecond)
		mutex.Lock()
		running--
		mutex.Unlock()
		return n * n
	}
	results := make([]int, 20)
	jobs := make(chan int)
	var workers sync.WaitGroup
	for w := 0; w < 4; w++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := range jobs {
				results[i] = fetch(i + 1)
			}
		}()
	}
	for i := range results {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
	fmt.Printf("%d\t%d\t%d\t%d\n", len(results), results[0], results[19], most)
}
