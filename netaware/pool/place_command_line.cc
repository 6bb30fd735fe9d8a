#include "netaware/pool/place_command_line.h"

#include "netaware/pool/placer_options.h"

namespace tessera {
namespace {

constexpr const char* kPlaceFooter =
    R"(Says which servers and GPUs a job with these options would have now, or why it would wait, or that it never fits. Nothing is held: the
next job may have them. 'tessera run' takes the same options, and places.

Exit codes: 0 it would be placed; 82 it would wait; 81 it never fits; the others as of 'tessera get'

Examples:
  tessera place --dry-run --gpus 2 --gpu-share 0.5
  tessera place --dry-run --gpu-mem 20G --gpu-model "NVIDIA H200" -o json)";

}  // namespace

void AddPlaceCommand(CLI::App& app, PoolOptions* options) {
  CLI::App* const place = app.add_subcommand("place", "show where a job would be placed in a pool");
  place->add_flag("--dry-run", options->dry_run, "show it; without this nothing is done");
  AddJobOptions(*place, &options->job);
  AddTextOrData(*place, options);
  AddIdentity(*place, options);
  place->footer(kPlaceFooter);
  place->callback([options] {
    if (!options->dry_run)
      throw CLI::ValidationError("place", "'tessera run' is what places jobs, this shows where: give --dry-run");
    options->placer = options->job.placer;
    options->command = "place";
  });
}

}  // namespace tessera
