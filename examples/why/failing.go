// Five calls, of which one fails; the others go on, and its error is kept.
package main

import (
	"errors"
	"fmt"
	"sync"
)

func failing() {
	fetch := func(n int) (int, error) {
		if n == 3 {
			return 0, errors.New("no such host")
		}
		return n, nil
	}
	jobs := make(chan int)
	var workers sync.WaitGroup
	var mutex sync.Mutex
	var results []int
	var problem error
	for w := 0; w < 2; w++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for n := range jobs {
				result, err := fetch(n)
				mutex.Lock()
				if err != nil {
					problem = err
				} else {
					results = append(results, result)
				}
				mutex.Unlock()
			}
		}()
	}
	for n := 1; n <= 5; n++ {
		jobs <- n
	}
	close(jobs)
	workers.Wait()
	fmt.Printf("%d\t%v\n", len(results), problem)
}
