# machined: see README.md. `make help` lists the targets.

# The Go release that go.mod names builds everything: its standard library is
# part of what is shipped, and of what is checked for vulnerabilities.
export GOTOOLCHAIN := $(shell awk '/^toolchain /{print $$2}' go.mod)

GO      ?= go
BOARD   ?= x86_64-uefi
CONFIG  ?=
PKI     ?=
OUT     ?= build/$(BOARD).img
SEEDS   ?= 1000
MINUTES ?= 10

# Packages whose tests boot machines: they run last and without the race
# detector, which would only see the harness.
BOOT_TESTS := machined/tools/boottest
NETBOOT_TESTS := machined/tools/netboottest
# Of these, those with a target of their own.
LONG_TESTS := ^(TestRuntime|TestUpgradeFaults|TestUpgradeKexec|TestUpgradeFirmware|TestUpgradeAsked|TestUpgradeResetOwnCA|TestNetbootRAM|TestNetbootState)$$
# Of those of netboot, those that are quick.
SHORT_NETBOOT_TESTS := ^(TestUEFIPXE|TestPi)$$

.PHONY: help setup build parts image run test lint vuln unit root-test boot boot-test runtime-test upgrade-test netboot-test crash-test soak footprint bench sim tinygo generate clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile
	@echo "BOARD is one of rpi-3a-plus, arm64-mbr, x86_64-uefi (default), arm64-uefi."

setup: ## install what is missing (Debian 12, root); twice is no harm
	@tools/setup/setup.sh

build: ## build machinectl into build/
	@mkdir -p build
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$$(git describe --tags --always --dirty 2>/dev/null || echo devel)" -o build/machinectl ./tools/machinectl

parts: setup ## collect kernels, firmware and machined into build/parts
	$(GO) run ./tools/parts --out build/parts

image: parts build ## build an image: BOARD= CONFIG= PKI= OUT=
	build/machinectl image build --board $(BOARD) --out $(OUT) $(if $(CONFIG),--config $(CONFIG)) $(if $(PKI),--pki $(PKI))

run: parts build ## build an image, boot it in QEMU and show its API: BOARD=
	@$(GO) build -o build/quickstart ./tools/quickstart
	@build/quickstart --board $(BOARD) $(if $(CONFIG),--config $(CONFIG))

test: setup lint vuln parts build unit boot ## everything that CI runs

lint: ## gofmt, go vet, staticcheck, of both modules
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@mkdir -p build && $(GO) build -o build/staticcheck honnef.co/go/tools/cmd/staticcheck
	cd runtime && $(GO) vet ./... && ../build/staticcheck ./...

vuln: ## known vulnerabilities, from the database that go.mod pins
	$(GO) run ./tools/vulndb --out build/vulndb
	$(GO) tool govulncheck -db "file://$(CURDIR)/build/vulndb" ./...
	@$(GO) build -o build/govulncheck golang.org/x/vuln/cmd/govulncheck
	cd runtime && ../build/govulncheck -db "file://$(CURDIR)/build/vulndb" ./... $$($(GO) list tool)

unit: ## tests with the race detector, QEMU boots of boards aside
	$(GO) test -race -timeout 15m $$($(GO) list ./... | grep -v -x -F -e "$(BOOT_TESTS)" -e "$(NETBOOT_TESTS)")
	cd runtime && $(GO) test -timeout 15m ./...

bench: ## the core's benchmarks, and the speed of upgrades, TFTP and HTTP
	@mkdir -p build
	@$(GO) test -run '^$$' -bench 'Store|IdlePass|ConfigToStatus' -benchmem ./reconcile ./reconcile/network
	@echo "budgets: StoreUpdate 100 ns, StoreGet 25 ns, StoreList64 1000 ns, IdlePass: none; 0 allocations in all four"
	@$(GO) test -run '^$$' -bench 'PlainCopy|Install' ./init/upgrade | grep '^Benchmark' | tee build/bench-upgrade
	@awk '/PlainCopy/ {c = $$3} /Install\/write/ {printf "upgrade_speed_ratio=%.2f (budget: 0.8 of a plain copy with fsync)\n", c / $$3}' build/bench-upgrade
	@$(GO) test -run '^$$' -bench 'TFTP|HTTP' -count 5 ./tools/netboot/tftp ./tools/netboot/server | grep '^Benchmark' | tee build/bench-netboot
	@awk -f tools/netboot/ratios.awk build/bench-netboot

root-test: setup ## tests with namespaces, loop devices and real DHCP and time servers (root)
	CI=true $(GO) test -count=1 -timeout 15m ./hal/linux/volume
	CI=true $(GO) test -count=1 -timeout 15m -v ./hal/linux ./tools/roottest

sim: ## whole nodes in simulated time, with all that goes wrong: SEEDS=
	@$(GO) run ./tools/sim -seeds $(SEEDS)

boot: ## boot tests of all boards, but for what runtime-test takes its time for
	@echo "boot: TestRuntime is left to \`make runtime-test\`, the faults, kexec and firmware of upgrades, commit, rollback and reset to \`make upgrade-test\`, nodes in RAM to \`make netboot-test\`, for their length"
	@GO="$(GO)" tools/boottest/boot.sh -count=1 -timeout 45m -skip '$(LONG_TESTS)' $(BOOT_TESTS)
	@echo "boot: of netboot there is one UEFI board and a Raspberry Pi's tree, all others are left to \`make netboot-test\`"
	$(GO) test -count=1 -timeout 15m -v -run '$(SHORT_NETBOOT_TESTS)' $(NETBOOT_TESTS)

boot-test: parts build ## boot tests of one board, step by step: BOARD=
	$(GO) test -count=1 -timeout 30m -v -skip '$(LONG_TESTS)' $(BOOT_TESTS) -args -board=$(BOARD)

runtime-test: parts build ## containers, and what is taken from them, on the Pi's model and x86-64: BOARD=
	$(GO) test -count=1 -timeout 40m -v -run '^TestRuntime$$' $(BOOT_TESTS) $(if $(filter command line,$(origin BOARD)),-args -board=$(BOARD))

upgrade-test: parts build ## upgrades, and all that can go wrong with them: BOARD=
	$(GO) test -count=1 -timeout 150m -v -run '^TestUpgrade' $(BOOT_TESTS) $(if $(filter command line,$(origin BOARD)),-args -board=$(BOARD))

netboot-test: parts build ## boot boards over a network: PXE, HTTP, iPXE, a Pi's ROM, eight at once
	$(GO) test -count=1 -timeout 30m -v -run '^TestNetboot' $(BOOT_TESTS)
	$(GO) test -count=1 -timeout 60m -v $(NETBOOT_TESTS)

crash-test: setup ## cut the power at every write of an upgrade, over a real FAT in QEMU
	@$(GO) run ./tools/crashtest

soak: parts ## a node under crashes, floods and leaks: MINUTES=
	@$(GO) run ./tools/soak -minutes $(MINUTES)

footprint: parts build ## memory, size and time to the API on the Pi 3A+ model
	@$(GO) run ./tools/footprint

tinygo: ## compile the core with TinyGo and run its suite as WebAssembly
	@tools/tinygo/setup.sh
	$(GO) run ./tools/tinygo

generate: setup ## regenerate the code of api/machine.proto
	tools/gen/gen.sh

clean: ## remove what was built
	rm -rf build
