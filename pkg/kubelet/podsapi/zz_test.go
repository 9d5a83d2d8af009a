package podsapi
import ("testing";"runtime";v1 "k8s.io/api/core/v1")
func TestZZ(t *testing.T){
 // container status with 2-byte volume mounts (field 12, empty), raw
 raw := make([]byte,0,4<<20)
 inner := make([]byte,0,4<<20)
 for len(inner) < 4<<20-64 { inner = append(inner, 0x62, 0x00) }
 raw = append(raw, 0x42) // field 8
 n := len(inner); for n >= 0x80 { raw = append(raw, byte(n)|0x80); n >>= 7 }; raw = append(raw, byte(n))
 raw = append(raw, inner...)
 p := &pod{raw: raw}
 var a,b runtime.MemStats
 runtime.ReadMemStats(&a)
 s, err := p.read()
 runtime.ReadMemStats(&b)
 t.Log(len(raw), s==nil, err, (b.TotalAlloc-a.TotalAlloc)>>20, "MiB allocated")
 _ = v1.Pod{}
}
