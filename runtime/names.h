#pragma once
// Names as strings that are never freed: of types, for profiles and messages, and of actors, because a
// profiler identifies a track by the pointer to its name.
//
// Threading: any thread.

#include <array>
#include <cstddef>
#include <string>
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

/// Returns the offset of the name after its namespaces; template arguments are kept whole.
constexpr std::size_t last_name(std::string_view whole) {
  const std::size_t colon = whole.substr(0, whole.find('<')).rfind(':');
  return colon == std::string_view::npos ? 0 : colon + 1;
}

}  // namespace type_name_detail

template <class T>
inline constexpr const char* kTypeName = type_name_detail::kStored<T>.data();

template <class T>
inline constexpr const char* kShortTypeName = kTypeName<T> + type_name_detail::last_name(kTypeName<T>);

// -- actors

inline constexpr std::size_t kMaxNames = 4096;

/// Returns a unique string equal to `name`. After kMaxNames different names, returns `fallback` for new
/// ones, so that memory stays bounded if a program names actors after requests.
const char* intern_name(const std::string& name, const char* fallback);

}  // namespace reprise::runtime
