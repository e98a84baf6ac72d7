"""Remembers who made and who holds each RRef and each autograd context of this process."""

# What torch calls in a graceful shutdown when all roles have ended their work: it frees the RRefs that they still hold.
RELEASE = "_delete_all_user_and_unforked_owner_rrefs"
