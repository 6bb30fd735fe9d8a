#include "protocol/base/status.h"

#include <cstring>

namespace tessera {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kNotFound: return "not found";
    case StatusCode::kPermissionDenied: return "permission denied";
    case StatusCode::kUnavailable: return "unavailable";
    case StatusCode::kVersionMismatch: return "version mismatch";
    case StatusCode::kResourceExhausted: return "resource exhausted";
    case StatusCode::kProtocolViolation: return "protocol violation";
    case StatusCode::kTimedOut: return "timed out";
    case StatusCode::kUnsupported: return "unsupported";
    case StatusCode::kInternal: return "internal";
    case StatusCode::kOverran: return "overran its time";
    case StatusCode::kFull: return "full";
  }
  return "unknown";
}

Status Status::FromErrno(std::string_view what, int error_number) {
  StatusCode code = StatusCode::kInternal;
  switch (error_number) {
    case ENOENT: code = StatusCode::kNotFound; break;
    case EACCES:
    case EPERM: code = StatusCode::kPermissionDenied; break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: code = StatusCode::kUnavailable; break;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC: code = StatusCode::kResourceExhausted; break;
    case ETIMEDOUT: code = StatusCode::kTimedOut; break;
    default: break;
  }
  return Status(code, std::string(what) + ": " + std::strerror(error_number));
}

}  // namespace tessera
