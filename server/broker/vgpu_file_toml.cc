// The TOML form of a file of vGPUs (https://toml.io/en/v1.0.0).
#include <fmt/core.h>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"
#include "protocol/wire/holder.h"
#include "server/broker/gpu_name.h"
#include "server/broker/vgpu_file.h"

namespace tessera {
namespace {

size_t LineOf(const toml::source_region& source) { return source.begin.line; }

Status Invalid(const std::string& why) { return Status(StatusCode::kInvalidArgument, why); }

std::string_view TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a text";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

Status WrongType(std::string_view field, const toml::node& node, std::string_view wanted) {
  return Invalid(fmt::format("{} is {}, and {} belongs there", field, TypeName(node), wanted));
}

Status ReadText(std::string_view field, const toml::node& node, std::string* text) {
  const auto* value = node.as_string();
  if (value == nullptr) return WrongType(field, node, "a text");
  *text = value->get();
  return Status::Ok();
}

Status ReadShare(std::string_view field, const toml::node& node, double* share) {
  const std::optional<double> value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value) return WrongType(field, node, "a number from 0 to 1");
  *share = *value;
  return Status::Ok();
}

Status ReadMemory(const toml::node& node, uint64_t* bytes) {
  if (!node.is_integer() && !node.is_string()) return WrongType("memory", node, "a number of bytes or a text such as \"8GiB\"");
  const std::string text = node.is_integer() ? std::to_string(node.as_integer()->get()) : node.as_string()->get();
  if (ParseBytes(text, bytes) && *bytes != 0) return Status::Ok();
  return Invalid(
      fmt::format("memory '{}' is no number of bytes above 0, with KiB, MiB, GiB, TiB or nothing behind it: leave "
                  "it out for no limit",
                  Printable(text)));
}

Status ReadGpu(const toml::node& node, const VgpuFileTerms& terms, uint32_t* gpu) {
  if (!node.is_integer() && !node.is_string()) return WrongType("gpu", node, "a GPU's number or its UUID");
  const std::string name = node.is_integer() ? std::to_string(node.as_integer()->get()) : node.as_string()->get();
  const Result<uint32_t> found = FindGpu(name, terms.gpus);
  if (!found.ok()) return found.status();
  *gpu = found.value();
  return Status::Ok();
}

Status ReadPriority(const toml::node& node, Priority* priority) {
  std::string word;
  RETURN_IF_ERROR(ReadText("priority", node, &word));
  if (ParsePriority(word, priority)) return Status::Ok();
  return Invalid(fmt::format("priority '{}' is none of protected, normal, best-effort", Printable(word)));
}

Status ReadOverrun(const toml::node& node, Overrun* overrun) {
  std::string word;
  RETURN_IF_ERROR(ReadText("overrun", node, &word));
  if (ParseOverrun(word, overrun)) return Status::Ok();
  return Invalid(fmt::format("overrun '{}' is none of bill, end", Printable(word)));
}

// From 1 to `most`; `without`: what holds where it is left out.
Status ReadWhole(std::string_view field, const toml::node& node, uint32_t most, uint32_t* whole,
                 std::string_view without = "no limit") {
  if (!node.is_integer()) return WrongType(field, node, "a whole number");
  const int64_t number = node.as_integer()->get();
  if (number < 1 || number > int64_t{most}) {
    return Invalid(fmt::format("{} {} is not 1 to {}: leave it out for {}", field, number, most, without));
  }
  *whole = static_cast<uint32_t>(number);
  return Status::Ok();
}

Status ReadOwners(const toml::node& node, std::vector<std::string>* owners) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return WrongType("owners", node, "a list such as [\"uid:1000\"]");
  if (list->empty()) return Invalid("owners is empty, so that nobody could use the vGPU: leave it out for everybody");
  for (const toml::node& each : *list) {
    std::string owner;
    RETURN_IF_ERROR(ReadText("each of owners", each, &owner));
    if (!UserOf(owner) && !IsNameHolder(owner)) {
      return Invalid(fmt::format("owner '{}' is not of the form uid:N, with the number of a user, or name:X of a certificate",
                                 Printable(owner)));
    }
    owners->push_back(std::move(owner));
  }
  return Status::Ok();
}

Status ReadField(std::string_view key, const toml::node& node, const VgpuFileTerms& terms, FileVgpu* vgpu) {
  if (key == "name") return ReadText(key, node, &vgpu->spec.name);
  if (key == "gpu") return ReadGpu(node, terms, &vgpu->gpu);
  if (key == "request") return ReadShare(key, node, &vgpu->spec.request);
  if (key == "limit") return ReadShare(key, node, &vgpu->spec.limit);
  if (key == "memory") return ReadMemory(node, &vgpu->spec.memory_bytes);
  if (key == "priority") return ReadPriority(node, &vgpu->spec.priority);
  if (key == "overrun") return ReadOverrun(node, &vgpu->spec.overrun);
  if (key == "max_sessions") return ReadWhole(key, node, UINT32_MAX, &vgpu->spec.max_sessions);
  if (key == "processes") return ReadWhole(key, node, kVgpuProcessesMax, &vgpu->spec.processes, "1");
  if (key == "sm_percent") return ReadWhole(key, node, 100, &vgpu->spec.sm_percent);
  if (key == "owners") return ReadOwners(node, &vgpu->owners);
  return Invalid(
      fmt::format("'{}' is no field of a vGPU: there are name, gpu, request, limit, memory, priority, overrun, "
                  "max_sessions, processes, sm_percent, owners",
                  Printable(key)));
}

Result<FileVgpu> ReadVgpu(const toml::node& node, const VgpuFileTerms& terms) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return AtLine(LineOf(node.source()), "vgpu is no table: write [[vgpu]] above the fields of each");
  FileVgpu vgpu{.line = LineOf(table->source())};
  vgpu.spec.request = terms.default_request;
  for (const auto& [key, value] : *table) {
    if (const Status status = ReadField(key.str(), value, terms, &vgpu); !status.ok()) {
      return AtLine(LineOf(key.source()), status);
    }
  }
  if (!table->contains("name")) return AtLine(vgpu.line, "a vGPU without name");
  return vgpu;
}

}  // namespace

Result<VgpuFile> ReadTomlVgpus(std::string_view text, const VgpuFileTerms& terms) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return AtLine(LineOf(parsed.error().source()), Printable(parsed.error().description()));
  VgpuFile file;
  for (const auto& [key, node] : parsed.table()) {
    const toml::array* list = node.as_array();
    if (key.str() != "vgpu" || list == nullptr) {
      return AtLine(LineOf(key.source()),
                    fmt::format("'{}' has no meaning here: write [[vgpu]] above the fields of each vGPU", Printable(key.str())));
    }
    for (const toml::node& each : *list) {
      Result<FileVgpu> vgpu = ReadVgpu(each, terms);
      if (!vgpu.ok()) return vgpu.status();
      file.vgpus.push_back(std::move(vgpu).value());
    }
  }
  const bool has_sms = std::ranges::any_of(file.vgpus, [](const FileVgpu& vgpu) { return vgpu.spec.sm_percent != 0; });
  if (has_sms) file.notes.emplace_back("sm_percent is kept, and not enforced yet");
  return file;
}

}  // namespace tessera
