package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestD114LicensesAreFresh: the file has the modules of the build, in their versions, with the texts that they have.
func TestD114LicensesAreFresh(t *testing.T) {
	const root = "../.."
	want, err := collect(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, output))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run go generate ./...", output)
	}
}

// TestLicencesInNamesThem: a text is known by the words that its licence has.
func TestLicencesInNamesThem(t *testing.T) {
	const bsd = "Redistribution and use in source and\nbinary forms, with or without modification"
	for text, want := range map[string]string{
		"Apache License\n  Version 2.0": "Apache-2.0", bsd: "BSD-2-Clause", bsd + " Neither the name of": "BSD-3-Clause",
		"Permission is hereby granted, free of charge": "MIT", "Apache License Version 2.0 " + bsd + " Neither the name": "Apache-2.0 AND BSD-3-Clause",
		"All rights reserved.": "",
	} {
		if got := licencesIn(text); got != want {
			t.Errorf("%.40q is %q, want %q", text, got, want)
		}
	}
}
