#pragma once
// The name of a type as a string that lives for ever: for the profiler and for messages to people.

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace reprise::runtime {

namespace type_name_detail {

template <class T>
constexpr std::string_view find() {
  // GCC:   constexpr std::string_view ...::find() [with T = Name; std::string_view = ...]
  // Clang: std::string_view ...::find() [T = Name]
  constexpr std::string_view whole = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = whole.find("T = ") + 4;
  constexpr std::size_t end = whole.find_first_of(";]", begin);
  return whole.substr(begin, end - begin);
}

template <class T, std::size_t... I>
constexpr auto store(std::index_sequence<I...>) {
  return std::array<char, sizeof...(I) + 1>{find<T>()[I]..., '\0'};
}

template <class T>
inline constexpr auto kStored = store<T>(std::make_index_sequence<find<T>().size()>{});

}  // namespace type_name_detail

template <class T>
inline constexpr const char* kTypeName = type_name_detail::kStored<T>.data();

}  // namespace reprise::runtime
