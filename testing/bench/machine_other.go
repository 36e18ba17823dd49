//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

// What machine_linux.go does is not written for other systems.

func processorTime() (time.Duration, error) { return 0, errors.ErrUnsupported }

func processorTimeOf(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

func memory(int) (now, highest int64, err error) { return 0, 0, errors.ErrUnsupported }

func forgetHighest(int) error { return errors.ErrUnsupported }

func rank(int, int) error { return errors.ErrUnsupported }

func pin(int, int) error { return errors.ErrUnsupported }

func raiseFiles(uint64) error { return errors.ErrUnsupported }

func tie(*exec.Cmd) {}
