// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
// All entries. Prefer the header of one domain: it changes less often.
#pragma once

#include "generated/client/toy.h"
