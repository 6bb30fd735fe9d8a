// The sandbox of workers and services (server/sandbox) as the command line asks for it: looked at when the daemon starts, entered
// by workers.
#pragma once

#include <sys/types.h>

#include "protocol/base/status.h"
#include "server/daemon/options.h"
#include "server/driver/loader.h"
#include "server/images/image_keeper.h"

namespace tessera {

// What it is on this machine.
SandboxReport InspectWorkerSandbox(const Options& options);
// The same of services: the broker, the keeper of images.
SandboxReport InspectServiceSandbox(const Options& options);

// Whom workers run as that have no user of their own; after CheckWorkerSandbox().
uid_t UserOfWorkers(const Options& options);

// Says what is missing of it on this machine, at level `warning`, and what is in force, at `info`. False, with a sentence on
// stderr: --sandbox require, and something is missing. What cannot be had of a private root and another user is left
// out of `*options`: no worker needs to try.
bool CheckWorkerSandbox(Options* options);

// What the keeper of images gives up; in its process.
KeeperSandbox SandboxOfImageKeeper(const Options& options);

// Of the calling process, a worker: after the driver's file was loaded, which its user may not be able to read, and before any of
// the driver's code runs.
Status EnterWorkerSandbox(const Options& options, const Driver& driver);

}  // namespace tessera
