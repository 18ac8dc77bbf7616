// Package cgrouptest makes cgroups for tests.
package cgrouptest
