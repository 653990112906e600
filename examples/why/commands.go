// Six commands, two at a time; their outputs in order.
package main

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

func commands() {
	results := make([]string, 6)
	jobs := make(chan int)
	var workers sync.WaitGroup
	for w := 0; w < 2; w++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := range jobs {
				out, err := exec.Command("echo", fmt.Sprint(i+1)).Output()
				if err != nil {
					panic(err)
				}
				results[i] = strings.TrimSpace(string(out))
			}
		}()
	}
	for i := range results {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
	fmt.Println(strings.Join(results, " "))
}
