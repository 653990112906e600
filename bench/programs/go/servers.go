// Programs that serve until they are ended. Each prints its port.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	return listener
}

func files(dir string) { check(http.Serve(listen(), http.FileServer(http.Dir(dir)))) }

func chat() {
	var lock sync.Mutex
	clients := map[chan string]bool{}
	listener := listen()
	for {
		conn, err := listener.Accept()
		check(err)
		out := make(chan string, 16)
		lock.Lock()
		clients[out] = true
		lock.Unlock()
		out <- "welcome\n"
		go func() {
			for line := range out {
				if _, err := io.WriteString(conn, line); err != nil {
					break
				}
			}
		}()
		go func() {
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				line := lines.Text() + "\n"
				lock.Lock()
				for client := range clients {
					client <- line
				}
				lock.Unlock()
			}
			lock.Lock()
			delete(clients, out)
			lock.Unlock()
			close(out)
			_ = conn.Close()
		}()
	}
}

// Go's library has nothing that follows a file: each go routine looks again after 10 ms.
func follow(path string, lines chan<- string) {
	file, err := os.Open(path)
	check(err)
	reader, part := bufio.NewReader(file), ""
	for {
		text, err := reader.ReadString('\n')
		part += text
		if err == nil {
			lines <- part
			part = ""
		} else if err == io.EOF {
			time.Sleep(10 * time.Millisecond)
		} else {
			panic(err)
		}
	}
}

func tail(dir string, n int) {
	lines, sum := make(chan string), 0
	for i := 1; i <= 50; i++ {
		go follow(fmt.Sprintf("%s/%d.log", dir, i), lines)
	}
	fmt.Println("port 1")
	for i := 0; i < n; i++ {
		value, err := strconv.Atoi(strings.Fields(<-lines)[0])
		check(err)
		sum += value
	}
	check(os.WriteFile(dir+"/done", []byte(fmt.Sprintln(n, sum)), 0o600))
	time.Sleep(time.Minute)
}
