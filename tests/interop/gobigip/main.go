// gobigip: github.com/scottdware/go-bigip as a program. It is what other operators of
// BIG-IP in Kubernetes are built on: Basic authentication, PUT in place of PATCH, and
// members without their partition.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/scottdware/go-bigip"
)

func main() {
	if len(os.Args) < 6 {
		log.Fatal("usage: gobigip PORT USER PASSWORD see POOL | live POOL ADDRESS PORT")
	}
	device := bigip.NewSession("127.0.0.1:"+os.Args[1], os.Args[2], os.Args[3], nil)
	var result any
	if os.Args[4] == "see" {
		result = see(device, os.Args[5])
	} else {
		result = live(device, os.Args[5], os.Args[6], os.Args[7])
	}
	printed, err := json.Marshal(result)
	must(err)
	fmt.Println(string(printed))
}

// see returns the members of a pool; the client knows no statistics of members.
func see(device *bigip.BigIP, pool string) map[string][]any {
	members, err := device.PoolMembers(pool)
	must(err)
	seen := map[string][]any{}
	for _, one := range members.PoolMembers {
		member, err := device.GetPoolMember(pool, one.FullPath)
		must(err)
		seen[one.FullPath] = []any{member.Session, member.State, member.Description, nil}
	}
	return seen
}

// live adds a member, adds it again, disables it, forces it offline and takes it out.
func live(device *bigip.BigIP, pool, address, port string) []string {
	name := address + ":" + port
	must(device.AddPoolMember(pool, name))
	steps := []string{session(device, pool, name)}
	again := device.AddPoolMember(pool, name)
	taken := again != nil && strings.Contains(again.Error(), "01020066")
	steps = append(steps, title(taken))
	for _, state := range []string{"disable", "offline"} {
		must(device.PoolMemberStatus(pool, name, state))
		member, err := device.GetPoolMember(pool, name)
		must(err)
		steps = append(steps, member.Session+" "+member.State)
	}
	must(device.DeletePoolMember(pool, name))
	member, err := device.GetPoolMember(pool, name)
	must(err)
	steps = append(steps, title(member != nil))
	must(device.DeleteNode(address))
	return steps
}

func session(device *bigip.BigIP, pool, name string) string {
	member, err := device.GetPoolMember(pool, name)
	must(err)
	return member.Session
}

// title writes a truth as Python does.
func title(is bool) string {
	if is {
		return "True"
	}
	return "False"
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
