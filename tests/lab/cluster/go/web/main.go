// webserver: the small web app behind the load balancer in tests and in the demo.
//
// Environment: PORT (8080), VERSION (1), NODE, and DRAIN: for so many seconds after
// SIGTERM it goes on serving, with /readyz failing, and then shuts down in peace. With
// AT_ONCE it ends on SIGTERM, whatever it is answering. TELL (HOST:PORT) gets a datagram with the
// pod's name and the moment of SIGTERM, in nanoseconds since 1970.
//
//	/              who answered: pod, node, version, and who asked
//	/slow?s=1.5    the same, after so many seconds
//	/healthz       200 for as long as it serves
//	/readyz        200, or 503 after SIGTERM and between /unready and /ready
//	/test.Echo/Talk  gRPC: answers each message of a stream with the pod's name
//
// It speaks HTTP/1.1, and HTTP/2 without TLS. `webserver get URL [TIMES]` is a client, for images that have no other.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// How long the last requests may take once the server has stopped to listen.
const shutdownPatience = 30 * time.Second

func main() {
	if len(os.Args) > 2 && os.Args[1] == "get" {
		os.Exit(get(os.Args[2:]))
	}
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	var unready atomic.Bool
	server := &http.Server{Addr: ":" + env("PORT", "8080"), Handler: routes(&unready), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go serve(server)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	caught := <-signals
	tell(env("TELL", ""), time.Now())
	log.Printf("got %v", caught)
	if env("AT_ONCE", "") != "" {
		os.Exit(0)
	}
	unready.Store(true)
	time.Sleep(seconds(env("DRAIN", "0")))
	ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
	defer cancel()
	log.Printf("shut down: %v", server.Shutdown(ctx))
}

func tell(address string, at time.Time) {
	if address == "" {
		return
	}
	pod, _ := os.Hostname()
	if connection, err := net.Dial("udp", address); err == nil {
		fmt.Fprintf(connection, "%s %d", pod, at.UnixNano())
		connection.Close()
	}
}

func serve(server *http.Server) {
	log.Printf("listening on %s", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func routes(unready *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", who)
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(seconds(r.URL.Query().Get("s")))
		who(w, r)
	})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if unready.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("/test.Echo/Talk", talk)
	mux.HandleFunc("/unready", func(http.ResponseWriter, *http.Request) { unready.Store(true) })
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) { unready.Store(false) })
	return mux
}

func who(w http.ResponseWriter, r *http.Request) {
	pod, _ := os.Hostname()
	fmt.Fprintf(w, "pod=%s node=%s version=%s peer=%s\n", pod, env("NODE", "-"), env("VERSION", "1"), r.RemoteAddr)
}

// A message of gRPC is a byte that says whether it is compressed, its length in four, and so many bytes.
func talk(w http.ResponseWriter, r *http.Request) {
	pod, _ := os.Hostname()
	answer := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(pod))), pod...)
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	var head [5]byte
	for {
		if _, err := io.ReadFull(r.Body, head[:]); err != nil {
			break // the client has no more to say, or is gone
		}
		io.CopyN(io.Discard, r.Body, int64(binary.BigEndian.Uint32(head[1:])))
		w.Write(answer)
		http.NewResponseController(w).Flush()
	}
	w.Header().Set("Grpc-Status", "0")
}

func env(name, fallback string) string {
	if text := os.Getenv(name); text != "" {
		return text
	}
	return fallback
}

func seconds(text string) time.Duration {
	number, _ := strconv.ParseFloat(text, 64)
	return time.Duration(number * float64(time.Second))
}

// get fetches a URL, a new connection each time, and returns how many attempts failed.
func get(args []string) int {
	times := 1
	if len(args) > 1 {
		times, _ = strconv.Atoi(args[1])
	}
	client := &http.Client{
		Timeout:   3 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	failed := 0
	for range times {
		response, err := client.Get(args[0])
		if err != nil {
			fmt.Println("error:", err)
			failed++
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Printf("%d %s", response.StatusCode, body)
	}
	return min(failed, 1)
}
