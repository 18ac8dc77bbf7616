package faults

import "errors"

func serveFew() error { return errors.New("not yet") }
