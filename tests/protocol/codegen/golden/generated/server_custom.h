// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
// All handlers. Prefer the header of one domain: it changes less often.
#pragma once

#include "generated/server/toy.h"
