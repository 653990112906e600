// A server of make bench-web. main FOLDER [CERTIFICATE KEY]: serves the files of a folder, and /string, a text of 100 KB. Prints its port.
package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	text := []byte(strings.Repeat("x", 100000))
	mux := http.NewServeMux()
	mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(os.Args[1]))))
	mux.HandleFunc("/string", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.Write(text)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	if len(os.Args) > 3 {
		server := &http.Server{Handler: mux, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
		panic(server.ServeTLS(listener, os.Args[2], os.Args[3]))
	}
	panic(http.Serve(listener, mux))
}
