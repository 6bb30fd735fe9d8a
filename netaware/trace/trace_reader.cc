#include "netaware/trace/trace_reader.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "netaware/trace/event_reader.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

Status NoTrace(const std::string& name) {
  return Status(StatusCode::kInvalidArgument, name + " is no trace of Tessera: name the file that TESSERA_TRACE named");
}

Status CannotRead(const std::string& name, const std::string& why) {
  return Status(StatusCode::kNotFound, name + " cannot be read: " + why + "; name the file that TESSERA_TRACE named");
}

}  // namespace

Result<TraceFacts> ReadTrace(std::istream& file, const std::string& name) {
  EventReader reader;
  // An empty file remains if the program was killed when it began to write.
  const bool empty = file.peek() == std::istream::traits_type::eof();
  const bool whole = !empty && nlohmann::json::sax_parse(file, &reader);
  if (empty || (!whole && file.eof() && reader.has_events())) {
    return Status(
        StatusCode::kUnavailable,
        name + " ends before its end: its program was killed as it wrote, or the disk was full; trace the program again");
  }
  if (!whole || !reader.has_events() || reader.version() < 0) return NoTrace(name);
  if (reader.version() != kTraceVersion) {
    return Status(StatusCode::kVersionMismatch,
                  name + " is a trace of another release (form " + std::to_string(reader.version()) + ", this one reads " +
                      std::to_string(kTraceVersion) + "): use the 'tessera' of that release, or trace the program again");
  }
  return std::move(reader.facts());
}

Result<TraceFacts> ReadTraceFile(const std::string& path) {
  const std::string name = Printable(path);
  struct stat what = {};
  if (stat(path.c_str(), &what) != 0) return CannotRead(name, std::strerror(errno));
  if (!S_ISREG(what.st_mode)) return CannotRead(name, "it is no regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return CannotRead(name, std::strerror(errno));
  return ReadTrace(file, name);
}

}  // namespace tessera
