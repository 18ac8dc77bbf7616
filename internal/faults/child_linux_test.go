package faults

func child(string) int { return 2 }
