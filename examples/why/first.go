// Asks three mirrors, takes the first answer, and ends the other questions.
package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

func first() {
	var cancelled int32
	ask := func(ctx context.Context, name string, ms time.Duration) (string, error) {
		select {
		case <-time.After(ms * time.Millisecond):
			return name, nil
		case <-ctx.Done():
			atomic.AddInt32(&cancelled, 1)
			return "", ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan string, 3)
	var asked sync.WaitGroup
	for name, ms := range map[string]time.Duration{"near": 5, "far": 2000, "farther": 3000} {
		asked.Add(1)
		go func(name string, ms time.Duration) {
			defer asked.Done()
			if answer, err := ask(ctx, name, ms); err == nil {
				answers <- answer
			}
		}(name, ms)
	}
	answer := <-answers
	cancel()
	asked.Wait()
	fmt.Printf("%s\t%d\n", answer, cancelled)
}
