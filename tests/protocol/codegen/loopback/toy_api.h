// The header of the invented functions of toy/toy.toml, included in front of everything (as cuda.h's prototypes are).
#pragma once

#include <cuda.h>

struct CUtoy_st;
typedef CUtoy_st* CUtoy;
struct CUpoint {
  int x, y;
};

extern "C" {
CUresult CUDAAPI cuToyCreate(CUtoy* toy, unsigned int flags);
CUresult CUDAAPI cuToyDestroy(CUtoy toy);
CUresult CUDAAPI cuToyDestroyOld(CUtoy toy);
CUresult CUDAAPI cuToyRename(CUtoy toy, const char* name, const void* data, size_t size, char* old, int length);
CUresult CUDAAPI cuToyPlay_v2(const CUtoy* toys, unsigned int number, const CUpoint* points, CUpoint* place, CUtoy* friends,
                              size_t* friend_count, void* userData, CUstream stream);
CUresult CUDAAPI cuToyPlay_v2_ptsz(const CUtoy* toys, unsigned int number, const CUpoint* points, CUpoint* place, CUtoy* friends,
                                   size_t* friend_count, void* userData, CUstream stream);
CUresult CUDAAPI cuToyGetColour(int* colour, CUtoy toy);
CUresult CUDAAPI cuToyPaint(CUtoy toy, void** colours);
CUresult CUDAAPI cuToyFly(CUtoy toy);
CUresult CUDAAPI cuToyName(const char** name);
CUresult CUDAAPI cuToyThrow(CUtoy toy, CUstream stream);
CUresult CUDAAPI cuToyHurl(CUtoy toy, CUstream stream);
}
