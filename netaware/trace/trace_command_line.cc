#include "netaware/trace/trace_command_line.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(summary  where the time of a traced process went (the GPU, round trips and from which thread, the network, the program), and what to
         change, in about ten lines. The thread that is looked at is the one that was longest in CUDA's calls

Exit codes: 0; 2 the command line was not understood; 74 the trace is of another release; 78 the file cannot be read, ends before its
end, or is no trace

Examples:
  TESSERA_TRACE=trace.json tessera run -- python train.py
  tessera trace summary trace.json
  tessera trace summary trace.json -o json)";

}  // namespace

CLI::App* AddTraceCommand(CLI::App& app, TraceOptions* options) {
  CLI::App* command =
      app.add_subcommand("trace", "tell from a trace (TESSERA_TRACE) where a program's time went, and what to change");
  command->add_option("action", options->action, "what to do")
      ->required()
      ->type_name("{summary}")
      ->check(CLI::IsMember({"summary"}));
  command->add_option("file", options->file, "a file that TESSERA_TRACE named")->required()->type_name("FILE");
  command->add_option("-o,--output", options->output, "form of the output")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->footer(kFooter);
  return command;
}

}  // namespace tessera
