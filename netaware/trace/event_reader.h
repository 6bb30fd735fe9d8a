// Collects facts from the events of a trace during the JSON parse. A trace has up to some million events, and most are not
// needed, so no event is stored unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "netaware/trace/trace_facts.h"

namespace tessera {

// For nlohmann::json::sax_parse, once.
class EventReader {
 public:
  TraceFacts& facts() { return facts_; }
  // True if "traceEvents" exists and is a list.
  bool has_events() const { return has_events_; }
  // The version of the file's form in "otherData"; -1: none.
  int64_t version() const { return version_; }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(int64_t value) { return Number(static_cast<double>(value)); }
  bool number_unsigned(uint64_t value) { return Number(static_cast<double>(value)); }
  bool number_float(double value, const std::string&) { return Number(value); }
  bool string(std::string& value);
  bool binary(nlohmann::json::binary_t&) { return true; }
  bool start_object(size_t);
  bool key(std::string& key);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) { return false; }

 private:
  // The parser's nesting depth in {"traceEvents": [{... "args": {...}}], "otherData": {...}}.
  static constexpr int kRoot = 1, kInOther = 2, kInList = 2, kInEvent = 3, kInArgs = 4;

  struct Event {
    std::string phase, name, category, args_name;
    double process = 0, thread = 0, begin_us = 0, took_us = 0;
    double waits = 0, sender = 0;
  };

  bool Number(double value);
  void Add();
  TraceFacts::Name NumberOf(const std::string& name);

  TraceFacts facts_;
  int depth_ = 0;
  std::string section_;  // the present key of the root object
  std::string key_;      // the last key
  std::string within_;   // the event's key whose object is being read
  Event event_;
  bool has_events_ = false;
  int64_t version_ = -1;
  std::unordered_map<std::string, TraceFacts::Name> numbers_;
};

}  // namespace tessera
