package main

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	sharedMemory = "/dev/shm"
	roomOfTests  = 8 << 30   // what has to be free there, and of the memory: tests need a half of it
	tmpfs        = 0x1021994 // the type of a file system in memory
	noExec       = 8         // its flag: nothing there can be run, and go test runs what it has built there
)

// folderInMemory makes an empty folder in memory for what tests write, so that they do not wait for a disk. Databases
// ask a disk thousands of times in a run to write everything down, and a busy one takes a tenth of a second for that.
// Where memory is short it returns "". The name is the same in each run: what go test has in its cache depends on it.
func folderInMemory(root string) (dir string, remove func()) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(sharedMemory, &fs); err != nil || fs.Type != tmpfs || fs.Flags&noExec != 0 ||
		fs.Bavail*uint64(fs.Bsize) < roomOfTests || availableMemory() < roomOfTests {
		return "", func() {}
	}
	sum := fnv.New64()
	sum.Write([]byte(root))
	dir = filepath.Join(sharedMemory, fmt.Sprintf("threeds-tests-%016x", sum.Sum64()))
	remove = func() { _ = os.RemoveAll(dir) }
	remove()                                                         // what an interrupted run has left
	if os.Mkdir(dir, 0o755) != nil || os.Chmod(dir, 0o1777) != nil { // others write there, too: a database server is not root
		return "", func() {}
	}
	return dir, remove
}

// availableMemory is how many bytes of memory programs can still have.
func availableMemory() uint64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "MemAvailable:" {
			kilobytes, _ := strconv.ParseUint(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
