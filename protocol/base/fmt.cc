// The functions behind fmt::format, compiled here once. Neither choice that fmt offers fits: its shared library would be a
// foreign library in the stub, and FMT_HEADER_ONLY compiles these functions again in every file that formats a line
// (3 s each).
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
