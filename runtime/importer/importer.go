// Package importer takes images from files into containerd, as CRI would have
// them after a pull: under the name that a pod gives, with the labels and the
// second name that CRI expects, unpacked and kept from being collected.
package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// Namespace is containerd's namespace of CRI.
	Namespace   = "k8s.io"
	snapshotter = "overlayfs"
	// managed is the label by which CRI knows an image for its own.
	managed = "io.cri-containerd.image"
	// visible is how long CRI may take to take note of an image.
	visible = 10 * time.Second
)

// Image is an image that containerd has.
type Image struct {
	Name   string
	Digest digest.Digest // of the manifest or index
}

// Import imports the images of this machine's platform in an OCI image layout
// (a directory or a tarball) or a Docker tarball. What containerd has already
// is left alone and returned like the rest.
func Import(ctx context.Context, c *client.Client, path string) ([]Image, error) {
	found, err := scan(path)
	if err != nil {
		return nil, err
	}
	if list, ok := present(ctx, c, found, path); ok {
		return list, nil
	}
	// The lease keeps what is written until names hold it.
	ctx, done, err := c.WithLease(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }()
	wanted, err := load(ctx, c, path)
	if err != nil {
		return nil, err
	}
	var list []Image
	for _, w := range wanted {
		if err := add(ctx, c, w); err != nil {
			return list, fmt.Errorf("add %s: %w", w.Name, err)
		}
		list = append(list, Image{w.Name, w.Target.Digest})
	}
	return list, nil
}

// present returns the images of a file when containerd has all of them.
func present(ctx context.Context, c *client.Client, found contents, path string) ([]Image, bool) {
	var list []Image
	have := func(name string, same func(client.Image) bool) bool {
		i, err := c.GetImage(ctx, name)
		if err != nil || !same(i) {
			return false
		}
		unpacked, err := i.IsUnpacked(ctx, snapshotter)
		list = append(list, Image{name, i.Target().Digest})
		return err == nil && unpacked && i.Labels()[managed] != ""
	}
	if found.index == nil {
		for _, d := range found.docker {
			for _, tag := range tags(d.RepoTags) {
				name, err := nameOf(map[string]string{images.AnnotationImageName: tag}, path)
				if err != nil || !have(name, func(i client.Image) bool {
					config, err := i.Config(ctx)
					return err == nil && config.Digest == configDigest(d.Config)
				}) {
					return nil, false
				}
			}
		}
		return list, len(list) > 0
	}
	wanted, err := choose(found.index.Manifests, path)
	for _, w := range wanted {
		if !have(w.Name, func(i client.Image) bool { return i.Target().Digest == w.Target.Digest }) {
			return nil, false
		}
	}
	return list, err == nil
}

// tags returns the names of a Docker image, with none for the one that is
// called after its file.
func tags(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// load writes a file's content, and returns the images in it.
func load(ctx context.Context, c *client.Client, path string) ([]images.Image, error) {
	r, err := open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	store := c.ContentStore()
	top, err := archive.ImportIndex(ctx, store, r)
	if err != nil {
		return nil, fmt.Errorf("read the image; is the file whole: %w", err)
	}
	text, err := content.ReadBlob(ctx, store, top)
	if err != nil {
		return nil, err
	}
	var index ocispec.Index
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	return choose(index.Manifests, path)
}

// choose returns the images in an index for this machine. Of those without a
// name the best for the platform is the one called after the file.
func choose(manifests []ocispec.Descriptor, path string) ([]images.Image, error) {
	platform := platforms.Default()
	best := make(map[string]ocispec.Descriptor)
	var order []string
	for _, m := range manifests {
		if m.Annotations[images.AnnotationManifestSubject] != "" || m.Platform != nil && !platform.Match(*m.Platform) {
			continue
		}
		name, err := nameOf(m.Annotations, path)
		if err != nil {
			return nil, err
		}
		other, again := best[name]
		if !again {
			order = append(order, name)
		}
		if !again || m.Platform != nil && (other.Platform == nil || platform.Less(*m.Platform, *other.Platform)) {
			best[name] = m
		}
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("none of its images is for %s", platforms.DefaultString())
	}
	var list []images.Image
	for _, name := range order {
		list = append(list, images.Image{Name: name, Target: best[name], Labels: map[string]string{managed: "managed"}})
	}
	return list, nil
}

// add keeps an image's content, names it, unpacks it and waits for CRI.
func add(ctx context.Context, c *client.Client, i images.Image) error {
	store := c.ContentStore()
	// The layers may go once they are unpacked, as after a pull.
	keep := images.SetChildrenMappedLabels(store, images.FilterPlatforms(images.ChildrenHandler(store), platforms.Default()), images.ChildGCLabelsFilterLayers)
	if err := images.WalkNotEmpty(ctx, keep, i.Target); err != nil {
		return fmt.Errorf("read its manifest; is the file whole: %w", err)
	}
	image := client.NewImage(c, i)
	config, err := image.Config(ctx)
	if err != nil {
		return fmt.Errorf("read its config: %w", err)
	}
	if err := image.Unpack(ctx, snapshotter); err != nil {
		return fmt.Errorf("unpack it; is the file whole: %w", err)
	}
	// CRI looks an image up by its id too. It makes that name itself only for
	// images without the label, and some time after.
	id := i
	id.Name = config.Digest.String()
	for _, named := range []images.Image{id, i} {
		if err := put(ctx, c.ImageService(), named); err != nil {
			return fmt.Errorf("name it %s: %w", named.Name, err)
		}
	}
	conn, ok := c.Conn().(grpc.ClientConnInterface)
	if !ok {
		return fmt.Errorf("ask CRI for %s: containerd's client has no connection", i.Name)
	}
	return await(ctx, cri.NewImageServiceClient(conn), i.Name)
}

func put(ctx context.Context, store images.Store, i images.Image) error {
	_, err := store.Create(ctx, i)
	if errdefs.IsAlreadyExists(err) {
		_, err = store.Update(ctx, i, "target", "labels."+managed)
	}
	return err
}

// await waits until CRI shows the image: it hears of it by an event. A
// containerd without CRI is none to wait for.
func await(ctx context.Context, service cri.ImageServiceClient, name string) error {
	ctx, cancel := context.WithTimeout(ctx, visible)
	defer cancel()
	for {
		answer, err := service.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
		if status.Code(err) == codes.Unimplemented || err == nil && answer.GetImage() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for CRI to show %s: %w", name, ctx.Err()), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
