// Yardstick holds what bench/gateway.py needs beside a gateway: a bare reverse proxy to compare it
// with, a backend that costs next to nothing, and a load generator. Standard library only.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fail("usage: yardstick proxy|backend|plain|streams [flags]")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	listen := flags.String("listen", "", "host:port")
	target := flags.String("url", "", "URL")
	conns := flags.Int("conns", 32, "connections or streams at once")
	seconds := flags.Float64("seconds", 1.5, "length of the run")
	every := flags.Duration("every", 20*time.Millisecond, "time between two chunks")
	flags.Parse(os.Args[2:])
	switch os.Args[1] {
	case "proxy":
		proxy(*listen, *target)
	case "backend":
		backend(*listen)
	case "plain":
		report(runPlain(*target, *conns, *seconds))
	case "streams":
		report(runStreams(*target, *conns, *seconds, *every))
	default:
		fail("unknown command " + os.Args[1])
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "yardstick: "+message)
	os.Exit(2)
}

// proxy is the smallest thing that streams: what a Go gateway is built on, without the gateway.
func proxy(listen, target string) {
	to, err := url.Parse(target)
	if err != nil {
		fail(err.Error())
	}
	handler := httputil.NewSingleHostReverseProxy(to)
	handler.FlushInterval = -1
	handler.Transport = &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	fail(http.ListenAndServe(listen, handler).Error())
}
