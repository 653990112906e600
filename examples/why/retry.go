// Repeats a call that fails twice, with a pause that doubles.
package main

import (
	"errors"
	"fmt"
	"time"
)

func retry() {
	tries := 0
	fetch := func() (string, error) {
		tries++
		if tries < 3 {
			return "", errors.New("no answer")
		}
		return "a page", nil
	}
	again := func(times int, pause time.Duration) (page string, err error) {
		for i := 0; i < times; i++ {
			if page, err = fetch(); err == nil {
				return page, nil
			}
			time.Sleep(pause << i)
		}
		return "", err
	}
	page, err := again(5, 2*time.Millisecond)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\t%d\n", page, tries)
}
