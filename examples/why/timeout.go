// Gives a call 10 ms; it needs longer, and is ended: it must take a context for that.
package main

import (
	"context"
	"fmt"
	"time"
)

func timeout() {
	slow := func(ctx context.Context) (string, error) {
		select {
		case <-time.After(2 * time.Second):
			return "an answer", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := slow(ctx)
	fmt.Printf("%t\t%t\n", err == nil, err == context.DeadlineExceeded)
}
