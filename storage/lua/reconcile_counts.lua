-- Count the entries of each tag at one instant.
-- KEYS[1]  namespace
-- ARGV     none
-- Returns  {indeterminate, pending_verification}
-- Types    reconcile_indeterminate ZSET, reconcile_pending ZSET

return {redis.call('ZCARD', K.reconcile_indeterminate()), redis.call('ZCARD', K.reconcile_pending())}
