package boottest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// registry serves one image as a registry does (OCI distribution specification,
// pulls alone), to whoever knows the password.
type registry struct {
	user, password string
	blobs          map[string][]byte // by digest
	manifest       string            // digest
	mediaType      string
	pulls          atomic.Int32 // of the manifest
	refused        atomic.Int32
}

// newRegistry reads the tarball of an OCI layout.
func newRegistry(t *testing.T, path, user, password string) *registry {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := &registry{user: user, password: password, blobs: map[string][]byte{}}
	var index struct {
		Manifests []struct{ MediaType, Digest string }
	}
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "index.json" {
			if err := json.Unmarshal(data, &index); err != nil {
				t.Fatal(err)
			}
		}
		sum := sha256.Sum256(data)
		r.blobs["sha256:"+hex.EncodeToString(sum[:])] = data
	}
	if len(index.Manifests) != 1 {
		t.Fatalf("%s has %d images; want 1", path, len(index.Manifests))
	}
	r.manifest, r.mediaType = index.Manifests[0].Digest, index.Manifests[0].MediaType
	return r
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if user, password, ok := req.BasicAuth(); !ok || user != r.user || password != r.password {
		r.refused.Add(1)
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	digest, contentType := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:], "application/octet-stream"
	if strings.Contains(req.URL.Path, "/manifests/") {
		if !strings.HasPrefix(digest, "sha256:") { // a tag
			digest = r.manifest
		}
		contentType = r.mediaType
		r.pulls.Add(1)
	}
	data, ok := r.blobs[digest]
	if !ok {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if req.Method != http.MethodHead {
		_, _ = io.Copy(w, bytes.NewReader(data))
	}
}
