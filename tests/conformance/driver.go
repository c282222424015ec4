// A driver of load balancers that is a map, from docs/protocol.md alone: Go's standard library, and no
// SDK. Declare it with memberKey Record, addressSource Backend, and a batch for what it does to members.
//
//	go run driver.go --bind-address 127.0.0.1:9000
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

const (
	largestRequest = 32 << 20
	patience       = 30 * time.Second
	mostItems      = 1000
)

// call has the fields of all requests; those that an operation has not are empty. Go takes names in
// any letter case, skips what it does not know, and null for missing.
type call struct {
	RecordID    string
	DryRun      bool
	NotAfter    *time.Time
	LbSpec      map[string]string
	LbInfo      map[string]string
	BackendAddr string
	Items       []call
}

type answer struct {
	RecordID          string            `json:"recordID,omitempty"` // of a batch's result
	Status            string            `json:"status"`
	Msg               string            `json:"msg,omitempty"`
	Delay             int               `json:"minRetryDelayInSeconds,omitempty"`
	LbInfo            map[string]string `json:"lbInfo,omitempty"`
	ActiveConnections int               `json:"activeConnections,omitempty"`
}

type member struct {
	BackendAddr       string `json:"backendAddr"`
	RecordID          string `json:"recordID"`
	State             string `json:"state"`
	ActiveConnections int    `json:"activeConnections"`
}

type listing struct {
	Epoch    string   `json:"epoch"`
	Backends []member `json:"backends"`
}

// pool is one load balancer: who uses it, by the recordIDs of their createLoadBalancer, and its members,
// by their records: two records may hold one address.
type pool struct {
	users   map[string]bool
	members map[string]*member
}

// driver keeps everything in memory: its epoch is one of this process.
type driver struct {
	mutex       sync.Mutex
	epoch       string
	pools       map[string]*pool
	connections map[string]int
}

// pool finds a load balancer, or makes it anew: this process may have lost it.
func (d *driver) pool(lbInfo map[string]string) *pool {
	key, _ := json.Marshal(lbInfo) // sorted by key
	if d.pools[string(key)] == nil {
		d.pools[string(key)] = &pool{map[string]bool{}, map[string]*member{}}
	}
	return d.pools[string(key)]
}

type operation struct {
	isAboutMember bool
	perform       func(*driver, call) answer
}

var operations = map[string]operation{
	"createLoadBalancer": {false, func(d *driver, c call) answer {
		if !c.DryRun {
			d.pool(c.LbSpec).users[c.RecordID] = true
		}
		return answer{Status: "Succ", LbInfo: c.LbSpec}
	}},
	"ensureLoadBalancer": {false, func(d *driver, c call) answer {
		if !c.DryRun {
			d.pool(c.LbInfo).users[c.RecordID] = true
		}
		return answer{Status: "Succ"}
	}},
	"deleteLoadBalancer": {false, func(d *driver, c call) answer {
		if len(c.LbInfo) == 0 {
			c.LbInfo = c.LbSpec // nobody knows how its creation ended
		}
		found := d.pool(c.LbInfo)
		if c.DryRun {
			return answer{Status: "Succ"}
		}
		delete(found.users, c.RecordID)
		if len(found.users) == 0 && len(found.members) == 0 {
			key, _ := json.Marshal(c.LbInfo)
			delete(d.pools, string(key))
		}
		return answer{Status: "Succ"}
	}},
	"ensureBackend":     {true, (*driver).ensureBackend},
	"drainBackend":      {true, (*driver).drainBackend},
	"deregisterBackend": {true, (*driver).deregisterBackend},
}

var batches = map[string]string{
	"ensureBackends": "ensureBackend", "drainBackends": "drainBackend", "deregisterBackends": "deregisterBackend",
}

func (d *driver) ensureBackend(c call) answer {
	if address, err := netip.ParseAddrPort(c.BackendAddr); err != nil || address.Port() == 0 {
		// As sdk.Permanent: it is asked again when its object has changed, or in an hour.
		return answer{Status: "Fail", Msg: "backendAddr is no IP:port", Delay: 3600}
	}
	if !c.DryRun {
		d.pool(c.LbInfo).members[c.RecordID] = &member{BackendAddr: c.BackendAddr, RecordID: c.RecordID, State: "Active"}
	}
	return answer{Status: "Succ"}
}

func (d *driver) drainBackend(c call) answer {
	found := d.pool(c.LbInfo).members[c.RecordID]
	if found == nil {
		return answer{Status: "Succ", Msg: "it is not there"}
	}
	if !c.DryRun {
		found.State = "Draining"
	}
	if left := d.connections[c.RecordID]; left > 0 {
		return answer{Status: "Running", ActiveConnections: left, Delay: 1}
	}
	return answer{Status: "Succ"}
}

func (d *driver) deregisterBackend(c call) answer {
	if !c.DryRun {
		delete(d.pool(c.LbInfo).members, c.RecordID)
	}
	return answer{Status: "Succ"}
}

func (d *driver) list(c call) listing {
	found := listing{d.epoch, []member{}}
	for _, one := range d.pool(c.LbInfo).members {
		listed := *one
		listed.ActiveConnections = d.connections[one.RecordID]
		found.Backends = append(found.Backends, listed)
	}
	return found
}

// once performs an operation, unless its turn comes too late.
func (d *driver) once(name string, c call) answer {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if c.NotAfter != nil && time.Now().After(*c.NotAfter) {
		return answer{Status: "Fail", Msg: "its notAfter is over: nothing was done"}
	}
	return operations[name].perform(d, c)
}

// check says why a body is no request of an operation.
func check(name string, c call) error {
	one, isBatch := batches[name]
	switch {
	case isBatch && (len(c.Items) == 0 || len(c.Items) > mostItems):
		return fmt.Errorf("items must be 1 to %d", mostItems)
	case !isBatch && name != "listBackends" && c.RecordID == "":
		return errors.New("recordID is missing")
	case operations[name].isAboutMember && c.BackendAddr == "":
		return errors.New("backendAddr is missing")
	}
	seen := map[string]bool{}
	for _, item := range c.Items {
		if seen[item.RecordID] {
			return errors.New("a recordID is there twice")
		}
		seen[item.RecordID] = true
		if err := check(one, item); isBatch && err != nil {
			return err
		}
	}
	return nil
}

// turn is a call's place among all: taken when its head has arrived. Until its body is parsed it may be
// about any member.
type turn struct {
	isParsed bool
	records  map[string]bool
}

type queue struct {
	changed *sync.Cond
	turns   []*turn
}

func (q *queue) enter() *turn {
	q.changed.L.Lock()
	defer q.changed.L.Unlock()
	mine := &turn{}
	q.turns = append(q.turns, mine)
	return mine
}

// wait comes back when all calls about the same records that came before have left.
func (q *queue) wait(mine *turn, records map[string]bool) {
	q.changed.L.Lock()
	defer q.changed.L.Unlock()
	mine.isParsed, mine.records = true, records
	q.changed.Broadcast()
	for q.isBehind(mine) {
		q.changed.Wait()
	}
}

func (q *queue) isBehind(mine *turn) bool {
	for _, other := range q.turns {
		if other == mine {
			return false
		}
		for record := range mine.records {
			if !other.isParsed || other.records[record] {
				return true
			}
		}
	}
	return false
}

func (q *queue) leave(mine *turn) {
	q.changed.L.Lock()
	defer q.changed.L.Unlock()
	for n, other := range q.turns {
		if other == mine {
			q.turns = append(q.turns[:n], q.turns[n+1:]...)
			break
		}
	}
	q.changed.Broadcast()
}

type server struct {
	driver *driver
	queue  *queue
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[1:]
	_, isSingle := operations[name]
	_, isBatch := batches[name]
	switch {
	case name == "healthz":
		reply(w, 200, map[string]bool{"healthy": true})
	case name == "connections":
		s.connect(r)
	case !isSingle && !isBatch && name != "listBackends":
		reply(w, 404, map[string]string{"error": "no such operation: " + name})
	case r.Method != http.MethodPost:
		reply(w, 405, map[string]string{"error": name + " is called with POST"})
	default:
		s.serve(w, r, name)
	}
}

// serve carries an operation to its end, also where its caller has hung up.
func (s *server) serve(w http.ResponseWriter, r *http.Request, name string) {
	mine := s.queue.enter()
	defer s.queue.leave(mine)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestRequest))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		reply(w, 413, map[string]string{"error": err.Error()})
		return
	}
	var asked call
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err == nil {
		err = check(name, asked)
	}
	if err != nil {
		reply(w, 400, map[string]string{"error": err.Error()})
		return
	}
	records := map[string]bool{asked.RecordID: true}
	for _, item := range asked.Items {
		records[item.RecordID] = true
	}
	if name == "listBackends" {
		records = nil
	}
	s.queue.wait(mine, records)
	reply(w, 200, s.answer(name, asked))
}

func (s *server) answer(name string, asked call) any {
	if name == "listBackends" {
		s.driver.mutex.Lock()
		defer s.driver.mutex.Unlock()
		return s.driver.list(asked)
	}
	one, isBatch := batches[name]
	if !isBatch {
		return s.driver.once(name, asked)
	}
	results := []answer{}
	for _, item := range asked.Items {
		result := s.driver.once(one, item)
		result.RecordID = item.RecordID
		results = append(results, result)
	}
	return map[string][]answer{"results": results}
}

// connect gives a record's member connections, for those who try its drains.
func (s *server) connect(r *http.Request) {
	s.driver.mutex.Lock()
	defer s.driver.mutex.Unlock()
	s.driver.connections[r.FormValue("record")], _ = strconv.Atoi(r.FormValue("count"))
}

func reply(w http.ResponseWriter, status int, said any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(said)
}

func main() {
	address := flag.String("bind-address", "127.0.0.1:9000", "where to listen")
	flag.Parse()
	epoch := strconv.FormatInt(time.Now().UnixNano(), 10)
	served := &server{
		&driver{epoch: epoch, pools: map[string]*pool{}, connections: map[string]int{}},
		&queue{changed: sync.NewCond(&sync.Mutex{})},
	}
	log.Fatal(http.ListenAndServe(*address, served))
}
