// Defines how facts of all types are copied, moved and destroyed.
#include "consensus/message/facts.hpp"

namespace gv {

Fact::Fact() = default;
Fact::Fact(std::size_t index, void* fact) : FactVariant(variant_from<FactVariant>(index, fact)) {}
Fact::Fact(const Fact& other) = default;
Fact::Fact(Fact&& other) noexcept = default;
Fact& Fact::operator=(const Fact& other) = default;
Fact& Fact::operator=(Fact&& other) noexcept = default;
Fact::~Fact() = default;

}  // namespace gv
