// Package faults tests a real server while the machine under it fails.
package faults
