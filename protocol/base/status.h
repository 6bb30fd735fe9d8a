// Operating errors: a code and a sentence for people. CUDA's own results (CUresult) are data, not Status.
//
// Any thread may use these types; they hold no shared state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/base/check.h"

namespace tessera {

enum class StatusCode {
  kOk,
  kInvalidArgument,    // the caller or the user gave something unusable
  kNotFound,           // a file, device or object does not exist
  kPermissionDenied,   // the operating system or a policy refused
  kUnavailable,        // the peer cannot be reached, or went away
  kVersionMismatch,    // the peer speaks another version of the protocol
  kResourceExhausted,  // memory, descriptors, address space or a named bound is used up
  kProtocolViolation,  // the peer sent something that no correct peer sends
  kTimedOut,
  kUnsupported,
  kInternal,  // a system call failed in a way that has no better code
  kOverran,   // it used more time than allowed
  kFull,      // the greatest allowed number is there already
};
inline constexpr StatusCode kLastStatusCode = StatusCode::kFull;

// Lower-case words for a code, as in logs: "not found".
std::string_view StatusCodeName(StatusCode code);

// Success, or a code and a sentence: what happened, to what, what to do next.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }
  // The failed system call with strerror(error_number) appended to `what`.
  static Status FromErrno(std::string_view what, int error_number);

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A value, or the Status that says why there is none. value() on a failed Result is a programmer error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design, as `return value;`
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design, as `return status;`
    CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    CHECK(ok());
    return *value_;
  }
  T&& value() && {
    CHECK(ok());
    return *std::move(value_);
  }
  T* operator->() { return &value(); }
  T& operator*() & { return value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tessera

// Returns the Status of `expression` from the enclosing function when it is not ok.
#define RETURN_IF_ERROR(expression)                                              \
  do {                                                                           \
    if (::tessera::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
