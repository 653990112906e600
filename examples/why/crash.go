// A background job fails, and no code waits for its result.
package main

import (
	"errors"
	"fmt"
	"time"
)

func crash() {
	job := func() error { return errors.New("no such host") }
	go job()
	time.Sleep(20 * time.Millisecond)
	fmt.Println("the main program ends")
}
