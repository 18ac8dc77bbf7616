// Package review compares a context with the base that it was seeded with, and brings what a reviewer approved into the workspace.
package review
